import type { TrafficEdge } from '../../answers/traffic.ts';
import { parameters, show } from '../location.ts';

const WIDTH = 960;
const ROW = 26;
const TOP = 30;
const NAME_CHARACTERS = 32;
/** Ends of the lines, beside the names. */
const [LEFT, RIGHT] = [300, 660];

interface Line {
  readonly from: string;
  readonly to: string;
  readonly connections: number;
  readonly denied: number;
  /** Those that policies in mode `audit` would deny. */
  readonly wouldDeny: number;
}

function linesOf(edges: readonly TrafficEdge[]): Line[] {
  return [...Map.groupBy(edges, ({ source, destination }) => `${source}\n${destination}`).values()].flatMap((of): Line[] => {
    const [first] = of;
    const sum = (some: readonly TrafficEdge[]): number => some.reduce((total, { connections }) => total + connections, 0);
    const denied = sum(of.filter(({ verdict }) => verdict === 'denied' || verdict === 'refused'));
    const wouldDeny = sum(of.filter(({ verdict }) => verdict === 'would-deny'));
    return first ? [{ from: first.source, to: first.destination, connections: sum(of), denied, wouldDeny }] : [];
  });
}

/** Callers on the left, callees on the right; equal edges give an equal picture. The table has the same for readers without it. */
export function TrafficPicture({ edges, namespace }: { readonly edges: readonly TrafficEdge[]; readonly namespace: string }) {
  const lines = linesOf(edges);
  const callers = [...new Set(lines.map(({ from }) => from))];
  const callees = [...new Set(lines.map(({ to }) => to))].toSorted((a, b) => heightOf(a) - heightOf(b) || (a < b ? -1 : 1));
  const places = new Map(callees.map((name, at) => [name, at]));
  const height = TOP + Math.max(callers.length, callees.length) * ROW + 8;
  const most = Math.max(1, ...lines.map(({ connections }) => connections));

  /** Mean place of the callers of a workload: few lines cross. */
  function heightOf(callee: string): number {
    const of = lines.filter(({ to }) => to === callee).map(({ from }) => callers.indexOf(from));
    return of.reduce((sum, at) => sum + at, 0) / of.length;
  }

  return (
    <div class="picture">
      <svg viewBox={`0 0 ${WIDTH} ${height}`} role="img" aria-label={`Callers and callees of namespace ${namespace}; the table below has the same`}>
        <text class="column" x={LEFT - 12} y={16} text-anchor="end">
          from
        </text>
        <text class="column" x={RIGHT + 12} y={16}>
          to
        </text>
        {lines.map((line) => (
          <EdgeLine key={`${line.from}\n${line.to}`} line={line} y={[callers.indexOf(line.from), places.get(line.to) ?? 0]} width={1 + (2 * line.connections) / most} />
        ))}
        {callers.map((name, at) => (
          <EndName key={name} name={name} namespace={namespace} x={LEFT - 12} at={at} anchor="end" />
        ))}
        {callees.map((name, at) => (
          <EndName key={name} name={name} namespace={namespace} x={RIGHT + 12} at={at} anchor="start" />
        ))}
        {lines.map((line) => (
          <DeniedLabel key={`${line.from}\n${line.to}`} line={line} y={[callers.indexOf(line.from), places.get(line.to) ?? 0]} />
        ))}
      </svg>
    </div>
  );
}

const middleOf = (at: number): number => TOP + at * ROW + ROW / 2;

interface EdgeLineProps {
  readonly line: Line;
  /** Rows of both ends. */
  readonly y: readonly [from: number, to: number];
  readonly width: number;
}

function EdgeLine({ line: { from, to, connections, denied, wouldDeny }, y: [start, end], width }: EdgeLineProps) {
  const [a, b] = [middleOf(start), middleOf(end)];
  const d = `M${LEFT} ${a}C${LEFT + 120} ${a} ${RIGHT - 120} ${b} ${RIGHT} ${b}`;
  const isFolded = [from, to].some((end) => end.endsWith(' others)'));
  const open = (): void => {
    if (!isFolded) show({ ...parameters.value, source: from, destination: to, port: '', protocol: '', verdict: '' });
  };
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the rows of the table do the same, and are links
    <g class={isFolded ? '' : 'edge'} onClick={open}>
      <path class="target" d={d} />
    <path class={denied > 0 ? 'refused' : wouldDeny > 0 ? 'doubted' : ''} stroke-width={width} d={d} />
      <title>{`${from} to ${to}: ${connections} connections, ${denied} denied. Select it to see the last.`}</title>
    </g>
  );
}

/** Label near the callee, where lines of different callers are apart. */
function DeniedLabel({ line: { connections, denied, wouldDeny }, y: [start, end] }: Omit<EdgeLineProps, 'width'>) {
  if (denied + wouldDeny === 0) return null;
  const [a, b] = [middleOf(start), middleOf(end)];
  // The point of the curve at 0.25, near the caller: callees of denied connections are often the same.
  const y = a + (b - a) * 0.156;
  return (
    <text class={denied > 0 ? 'outcome' : 'outcome doubted'} x={LEFT + 90} y={y - 5}>
      {denied === 0 ? `! ${wouldDeny} would be denied` : denied === connections ? `✕ ${denied} denied` : `◐ ${denied} of ${connections} denied`}
    </text>
  );
}

interface EndNameProps {
  readonly name: string;
  readonly namespace: string;
  readonly x: number;
  readonly at: number;
  readonly anchor: 'start' | 'end';
}

function EndName({ name, namespace, x, at, anchor }: EndNameProps) {
  const text = name.length > NAME_CHARACTERS ? `${name.slice(0, NAME_CHARACTERS - 1)}…` : name;
  return (
    <text class={name.startsWith(`${namespace}/`) ? 'own' : ''} x={x} y={middleOf(at) + 4} text-anchor={anchor}>
      <title>{name}</title>
      {text}
    </text>
  );
}
