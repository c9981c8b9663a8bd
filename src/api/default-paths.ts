/** Default paths and names of an agent. */
export const defaultPaths = {
  configFile: '/etc/seine/agent.yaml',
  stateDir: '/var/lib/seine',
  ovsRunDir: '/run/openvswitch',
  ovsLogDir: '/var/log/openvswitch',
  ovsBridge: 'br-int',
  hostGateway: 'antrea-gw0',
  apiSocket: '/run/seine/agent.sock',
  cniBinDir: '/opt/cni/bin',
  cniConfDir: '/etc/cni/net.d',
} as const;
