import { request } from 'node:http';
import { SeineError } from '../../errors/seine-error.ts';
import { type Nftables, objectsIn } from '../../netlink/nftables.ts';

/** Where kube-proxy says that it is well (`--healthz-bind-address`). */
const HEALTHZ = { host: '127.0.0.1', port: 10256, path: '/healthz' } as const;
const HEALTHZ_PATIENCE_MS = 500;
const HEALTHZ_MOST_BYTES = 4_096;

/** Empty chains that kube-proxy makes to notice that rules were flushed: to list all its rules may take ten thousands of lines. */
const canaries = [
  { command: 'list chain ip mangle KUBE-PROXY-CANARY', sign: 'iptables chain KUBE-PROXY-CANARY' },
  { command: 'list chain ip6 mangle KUBE-PROXY-CANARY', sign: 'ip6tables chain KUBE-PROXY-CANARY' },
] as const;

export interface KubeProxySigns {
  /** Its rules; they may be those of one that is gone and was not cleaned up after. */
  readonly rules: readonly string[];
  /** It answers on its health address. */
  readonly alive: boolean;
}

export const noSigns: KubeProxySigns = { rules: [], alive: false };

/** Looks for a kube-proxy in the agent's network namespace. Never fails: what cannot be looked at is taken for absent. */
export async function lookForKubeProxy(nftables: Pick<Nftables, 'run'>, signal: AbortSignal): Promise<KubeProxySigns> {
  const tables = tablesIn(tryRun(nftables, 'list tables')).filter(({ name }) => name === 'kube-proxy');
  const rules = [
    ...tables.map(({ family }) => `nftables table ${family} kube-proxy`),
    ...canaries.filter(({ command }) => tryRun(nftables, command) !== '').map(({ sign }) => sign),
  ];
  return { rules, alive: await answersAsKubeProxy(signal) };
}

function tablesIn(json: string): { readonly family: unknown; readonly name: unknown }[] {
  if (json === '') return [];
  return objectsIn(json).flatMap(
    (object) => (object as { readonly table?: { readonly family: unknown; readonly name: unknown } }).table ?? [],
  );
}

function tryRun(nftables: Pick<Nftables, 'run'>, command: string): string {
  try {
    return nftables.run(command);
  } catch (thrown) {
    if (SeineError.from(thrown, command).code === 'REFUSED') return ''; // there is no such thing
    throw thrown;
  }
}

/** An answer of kube-proxy, healthy or not, is JSON with `lastUpdated`. */
async function answersAsKubeProxy(signal: AbortSignal): Promise<boolean> {
  const patience = AbortSignal.any([signal, AbortSignal.timeout(HEALTHZ_PATIENCE_MS)]);
  return await new Promise((resolve) => {
    const asking = request({ ...HEALTHZ, agent: false, signal: patience }, (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (part: string) => {
        text += part;
        if (text.length > HEALTHZ_MOST_BYTES) asking.destroy();
      });
      answer.on('end', () => resolve(text.includes('"lastUpdated"')));
      answer.on('close', () => resolve(false));
    });
    asking.on('error', () => resolve(false));
    asking.end();
  });
}
