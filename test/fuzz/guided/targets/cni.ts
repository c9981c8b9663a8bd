import { type Environment, environmentVariables } from '../../../../src/cni/environment.ts';
import { CniError } from '../../../../src/cni/errors.ts';
import { parseObject } from '../../../../src/cni/json.ts';
import { parseCniRequest } from '../../../../src/cni/request.ts';
import { parseResult } from '../../../../src/cni/result.ts';
import { cniVersions } from '../../../../src/cni/versions.ts';
import { decodeReply, decodeRequest, encodeRequest } from '../../../../src/cni/wire.ts';
import { isRead, type Target } from '../target.ts';

const container = 'c0ffee';
const netns = '/run/netns/pod';
const args = 'IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0;K8S_POD_UID=5d0b6f2e-0000-4000-8000-000000000001';
const commands = ['ADD', 'CHECK', 'DEL', 'GC', 'STATUS', 'VERSION'] as const;

const result = {
  cniVersion: '1.1.0',
  interfaces: [
    { name: 'web', mac: '0e:00:00:00:00:01' },
    { name: 'eth0', mac: '0e:00:00:00:00:02', sandbox: netns },
  ],
  ips: [
    { address: '10.244.0.5/24', gateway: '10.244.0.1', interface: 1 },
    { address: 'fd00:10:244::5/64', interface: 1 },
  ],
  routes: [{ dst: '0.0.0.0/0', gw: '10.244.0.1' }],
  dns: { nameservers: ['10.96.0.10'], search: ['svc.cluster.local'], options: ['ndots:5'] },
};
const conf = {
  cniVersion: '1.1.0',
  name: 'seine',
  type: 'seine',
  capabilities: { portMappings: true, bandwidth: true, ips: true, mac: true },
  ipam: { type: 'seine' },
  runtimeConfig: {
    portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp', hostIP: '192.0.2.1' }],
    bandwidth: { ingressRate: 8_000_000, ingressBurst: 8_000_000, egressRate: 8_000_000, egressBurst: 8_000_000 },
    ips: ['10.244.0.9/24', 'fd00:10:244::9/64'],
    mac: '0e:00:00:00:00:09',
  },
  prevResult: result,
  'cni.dev/valid-attachments': [{ containerID: container, ifname: 'eth0' }],
};

/** The variables, a line each in the order of `environmentVariables`, and the rest for the standard input. */
function callOf(bytes: Buffer): { readonly env: Environment; readonly conf: string } {
  const lines = bytes.toString('utf8').split('\n');
  const values = lines.slice(0, environmentVariables.length);
  const env = Object.fromEntries(environmentVariables.map((name, at) => [name, values[at] ?? '']));
  return { env, conf: lines.slice(environmentVariables.length).join('\n') };
}

const calls = commands.map((command) => [command, container, netns, 'eth0', args, '/opt/cni/bin', JSON.stringify(conf)].join('\n'));
const isRefusal = (thrown: unknown): boolean => thrown instanceof CniError;

export const cniTarget: Target = {
  name: 'cni',
  what: 'what a runtime gives the plugin: variables and standard input',
  seeds: () => calls.map((call) => Buffer.from(call)),
  read: (bytes) => {
    const { env, conf: input } = callOf(bytes);
    return isRead(() => parseCniRequest(env, input), isRefusal);
  },
};

/** Messages from the plugin to the agent and back, and within them the parts that the agent reads. */
export const socketTarget: Target = {
  name: 'socket',
  what: "bytes on the agent's socket, and the agent's answers",
  seeds: () => [
    ...calls.map((call) => Buffer.from(encodeRequest({ ...callOf(Buffer.from(call)), deadlineMs: 30_000, attempt: 1 }))),
    Buffer.from(JSON.stringify({ v: 1, exit: 0, stdout: JSON.stringify(result), pinPorts: true })),
  ],
  read: async (bytes) => {
    const text = bytes.toString('utf8');
    const asked = await isRead(() => {
      const { env, conf: input } = decodeRequest(text);
      parseCniRequest(env, input);
    }, isRefusal);
    const answered = await isRead(() => {
      const { stdout } = decodeReply(text);
      for (const version of cniVersions) parseResult(parseObject(stdout, 'result'), version);
    }, isRefusal);
    return asked || answered;
  },
};
