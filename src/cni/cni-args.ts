import { CniError, cniCodes } from './errors.ts';
import { hasOwnKey } from './own-key.ts';

/** Supported keys of CNI_ARGS; only their form is checked. */
export interface CniArgs {
  readonly podNamespace?: string;
  readonly podName?: string;
  readonly podUid?: string;
  readonly ip?: string;
  readonly mac?: string;
}

const known: Readonly<Record<string, keyof CniArgs | 'ignored'>> = {
  IgnoreUnknown: 'ignored',
  K8S_POD_NAMESPACE: 'podNamespace',
  K8S_POD_NAME: 'podName',
  K8S_POD_UID: 'podUid',
  K8S_POD_INFRA_CONTAINER_ID: 'ignored',
  IP: 'ip',
  MAC: 'mac',
};

/**
 * Parses CNI_ARGS: `KEY=VALUE;KEY=VALUE`, in any order. The last of two equal keys wins.
 *
 * @throws CniError 4 for a pair without `=`, and for an unknown key unless `IgnoreUnknown` is `1` or `true`
 */
export function parseCniArgs(text: string): CniArgs {
  const args: { -readonly [K in keyof CniArgs]: CniArgs[K] } = {};
  const unknown: string[] = [];
  let ignoreUnknown = false;
  for (const pair of text === '' ? [] : text.split(';')) {
    const at = pair.indexOf('=');
    if (at < 0) throw new CniError(cniCodes.invalidEnvironment, `CNI_ARGS: ${JSON.stringify(pair.slice(0, 100))} is not KEY=VALUE`);
    const key = pair.slice(0, at);
    const value = pair.slice(at + 1);
    const name = hasOwnKey(known, key) ? known[key] : undefined;
    if (key === 'IgnoreUnknown') ignoreUnknown = parseFlag(value);
    else if (name === undefined) unknown.push(pair);
    else if (name !== 'ignored') args[name] = value;
  }
  const [first] = unknown;
  if (first !== undefined && !ignoreUnknown)
    throw new CniError(
      cniCodes.invalidEnvironment,
      `CNI_ARGS: ${JSON.stringify(first.slice(0, 100))}: unknown key`,
      'set IgnoreUnknown=1 to ignore such keys',
    );
  return args;
}

function parseFlag(value: string): boolean {
  const lower = value.toLowerCase();
  if (lower === '1' || lower === 'true') return true;
  if (lower === '0' || lower === 'false') return false;
  throw new CniError(cniCodes.invalidEnvironment, `CNI_ARGS: IgnoreUnknown: ${JSON.stringify(value.slice(0, 100))} is neither 1 nor 0`);
}
