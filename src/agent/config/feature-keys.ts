import { type AgentConfig, parseConfig } from './agent-config.ts';

/**
 * Keys that change how packets are forwarded, or what is written on the node's disk or in its kernel. A rollout of the configuration
 * changes them in both directions.
 */
export const switches: readonly string[] = [
  'noSNAT',
  'tunnelCsum',
  'disableTXChecksumOffload',
  'hostFirewall',
  'hostSettings',
  'repairPods',
  'podInterface',
  'proxy.bucketTranslation',
  'proxy.forgetTCPConnections',
  'policy.mode',
  'policy.whenUnknown',
  'policy.unknownPeers',
  'policy.liveConnections',
  'policy.denied',
];

/** Returns those that differ from a configuration without them: `policy.mode=audit (default enforce)`. */
export function changedSwitches(config: AgentConfig): readonly string[] {
  const usual = parseConfig('', { NODE_NAME: config.nodeName });
  return switches.flatMap((key) => {
    const [now, before] = [plainSetting(config, key), plainSetting(usual, key)];
    return now === before ? [] : [`${key}=${now} (default ${before})`];
  });
}

/** @throws Error if there is no such key, or it is not a plain value */
export function switchDefault(key: string): string {
  return plainSetting(parseConfig('', { NODE_NAME: 'any' }), key);
}

function plainSetting(config: AgentConfig, key: string): string {
  const value = key
    .split('.')
    .reduce<unknown>((inner, part) => (typeof inner === 'object' && inner !== null ? Reflect.get(inner, part) : undefined), config);
  if (typeof value !== 'string' && typeof value !== 'boolean') throw new Error(`${key} is not a switch`);
  return String(value);
}
