import { columns } from '../daemon/status.ts';
import { labPaths } from '../plan/names.ts';
import type { LabPlan } from '../plan/plan.ts';
import type { DemoCheckResult } from './scene.ts';

/** Maximum length of a detail next to the other columns. */
const detailLengthMax = 110;

type TerminalColour = (text: string) => string;

interface Paints {
  readonly good: TerminalColour;
  readonly bad: TerminalColour;
  readonly dim: TerminalColour;
}

/** Colours for a terminal, and no colours elsewhere. */
export function paintsFor(stream: { readonly isTTY?: boolean }): Paints {
  const colour = (code: number): TerminalColour => (stream.isTTY === true ? (text) => `\u001b[${code}m${text}\u001b[0m` : (text) => text);
  return { good: colour(32), bad: colour(31), dim: colour(2) };
}

/** One line, printed as soon as a check is done. */
export function checkLine({ name, ok, detail, ms }: DemoCheckResult, { good, bad, dim }: Paints): string {
  return `  ${ok ? good('ok    ') : bad('FAILED')}  ${name.padEnd(30)} ${dim(`${String(ms).padStart(6)} ms`)}  ${ok ? dim(shorten(detail)) : oneLine(detail)}`;
}

/** The table at the end. */
export function resultTable(results: readonly DemoCheckResult[], { good, bad }: Paints): string {
  const rows = columns([
    ['CHECK', 'RESULT', 'MS', 'DETAIL'],
    ...results.map(({ name, ok, detail, ms }) => [name, ok ? 'ok' : 'FAILED', String(ms), shorten(detail)]),
  ]);
  const failed = results.filter(({ ok }) => !ok).length;
  const [head = '', ...lines] = rows;
  const painted = lines.map((line, index) => (results[index]?.ok === false ? bad(line) : line));
  const summary = failed === 0 ? good(`all ${results.length} checks hold`) : bad(`${failed} of ${results.length} checks failed`);
  return [head, ...painted, '', summary].join('\n');
}

function shorten(text: string): string {
  const detail = oneLine(text);
  return detail.length <= detailLengthMax ? detail : `${detail.slice(0, detailLengthMax - 1)}…`;
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim();
}

/** Commands to continue with, and to remove the lab. @param podIp of some pod of the demo */
export function howToGoOn(plan: LabPlan, labCommand: string, podIp: string): string {
  const { kubeconfig } = labPaths(plan.dir);
  return [
    'Look around:',
    `  export KUBECONFIG=${kubeconfig}`,
    '  kubectl get pods -A -o wide',
    `  ${labCommand} status`,
    `  ${labCommand} exec demo/client-1 -- bash -c 'exec 3<>/dev/tcp/${podIp}/80; echo >&3; head -1 <&3'`,
    `  ${labCommand} node exec node-1 -- ovs-ofctl -O OpenFlow15 --names dump-flows br-int`,
    `  ${labCommand} node exec node-1 -- seinectl status`,
    `  ${labCommand} node exec node-1 -- seinectl check`,
    `  ${labCommand} node exec node-1 -- seinectl explain service demo/web --from demo/client-1`,
    '  less docs/contributing/lab.md',
    'Remove it all:',
    `  ${labCommand} down`,
  ].join('\n');
}
