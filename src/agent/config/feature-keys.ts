import { type AgentConfig, parseConfig } from './agent-config.ts';

/** A key that changes how packets go, or what is written on the node's disk or in its kernel; the way back from it is a roll-out of the configuration. */
interface Switch {
  readonly key: string;
  /** The first release that has it. */
  readonly since: string;
  /** What another value than the default changes. */
  readonly does: string;
}

export const switches: readonly Switch[] = [
  { key: 'noSNAT', since: '0.1.0', does: 'no masquerade: pods go to the outside with their own addresses' },
  { key: 'tunnelCsum', since: '0.1.0', does: 'checksums in the outer header of tunnels' },
  { key: 'disableTXChecksumOffload', since: '0.1.0', does: 'pods made from then on fill in checksums themselves' },
  {
    key: 'hostFirewall',
    since: '0.1.0',
    does: '`manage`: rules in packet filters of others, which stay (`nft -a list ruleset \\| grep seine`)',
  },
  { key: 'hostSettings', since: '0.2.0', does: '`check`: kernel settings are not written, only reported' },
  { key: 'repairPods', since: '0.3.0', does: 'names, addresses and routes inside pods are put back' },
  {
    key: 'podInterface',
    since: '0.8.0',
    does: '`veth`: new pods get veth pairs of their own, as before 0.21.0; `standing`: interfaces over ports that stay plugged in, whatever annotations they have. Those that run keep theirs',
  },
  { key: 'proxy.bucketTranslation', since: '0.2.0', does: '`false`: each endpoint has a flow that translates, as before 0.2.0' },
  { key: 'proxy.forgetTCPConnections', since: '0.1.0', does: '`true`: TCP connections to an endpoint that is gone end at once' },
  { key: 'policy.mode', since: '0.4.0', does: 'what policies deny passes (`audit`), or no pod is policed (`off`)' },
  { key: 'policy.whenUnknown', since: '0.4.0', does: 'what becomes of a pod of which it is not known whether a policy concerns it' },
  { key: 'policy.liveConnections', since: '0.5.0', does: '`keep`: connections that were let in go on when policies deny them' },
];

/** Those that are not as a configuration without them would have it: `policy.mode=audit (default enforce)`. */
export function changedSwitches(config: AgentConfig): readonly string[] {
  const usual = parseConfig('', { NODE_NAME: config.nodeName });
  return switches.flatMap(({ key }) => {
    const [now, before] = [plainSetting(config, key), plainSetting(usual, key)];
    return now === before ? [] : [`${key}=${now} (default ${before})`];
  });
}

/** @throws Error if there is no such key, or it is no plain value */
export function switchDefault(key: string): string {
  return plainSetting(parseConfig('', { NODE_NAME: 'any' }), key);
}

function plainSetting(config: AgentConfig, key: string): string {
  const value = key
    .split('.')
    .reduce<unknown>((inner, part) => (typeof inner === 'object' && inner !== null ? Reflect.get(inner, part) : undefined), config);
  if (typeof value !== 'string' && typeof value !== 'boolean') throw new Error(`${key} is no switch`);
  return String(value);
}
