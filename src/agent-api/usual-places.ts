/** Where an agent has things unless it is told otherwise. */
export const usualPlaces = {
  configFile: '/etc/seine/agent.yaml',
  stateDir: '/var/lib/seine',
  ovsRunDir: '/run/openvswitch',
  ovsLogDir: '/var/log/openvswitch',
  ovsBridge: 'br-int',
  cniConfDir: '/etc/cni/net.d',
} as const;
