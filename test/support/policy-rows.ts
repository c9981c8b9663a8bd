import { compileSubject, entriesOfOthers } from '../../src/connectivity/compile-entry.ts';
import { compileVerdicts } from '../../src/connectivity/compile-verdict.ts';
import type { NodeEnvironment } from '../../src/connectivity/environment.ts';
import { parseCidr, parseIp } from '../../src/net/ip.ts';
import { encodeParsedFlow, parseFlow } from '../../src/openflow/text/parse-flow.ts';
import { ownerOf } from '../../src/pipeline/cookie.ts';
import type { HeldFlow } from '../../src/policy-bytes/table-index.ts';
import { type DecidedRange, type DirectionMatrix, type PolicyMatrix, policyDirections } from '../../src/policy-matrix/matrix.ts';
import { decodeFlowEntry, encodeBridgeEntries } from '../../src/reconcile/bridge-entry.ts';

/*
 * A matrix as flows, as plainly as the layout allows: numbers as they come, a flow for each range and prefix, nothing shared. For tests of
 * those who read flows; the product has a compiler.
 */

export interface WrittenPod {
  readonly pod: string;
  readonly ofPort: number;
  readonly addresses: readonly string[];
}

const layout = {
  egress: { identity: 38, classes: 42, ports: 43, verdicts: 46, address: 'dst', register: 'reg9' },
  ingress: { identity: 82, classes: 86, ports: 87, verdicts: 90, address: 'src', register: 'reg8' },
} as const;

export function writtenFlows(matrix: PolicyMatrix, node: NodeEnvironment, pods: readonly WrittenPod[]): HeldFlow[] {
  const subjects = pods.flatMap(({ pod, ofPort, addresses }) => {
    const subject = matrix.subjects.get(pod);
    const classes = Object.fromEntries(
      policyDirections.flatMap((direction) => {
        const own = subject ? subject[direction] : ({ id: -1 } as const);
        return own ? [[direction, own.id === -1 ? ('closed' as const) : own.id + 2]] : [];
      }),
    );
    return compileSubject({ ofPort, addresses: addresses.map(parseIp), ...classes });
  });
  const flows = [...entriesOfOthers(node), ...compileVerdicts(node), ...subjects];
  const encoded = [...encodeBridgeEntries(ownerOf('node'), { flows, groups: [], meters: [] })].map(([key, value]) =>
    decodeFlowEntry(key, value),
  );
  return [...encoded, ...policyDirections.flatMap((direction) => rowsOf(matrix[direction], direction).map(held))];
}

function rowsOf({ identities, relations }: DirectionMatrix, direction: 'ingress' | 'egress'): readonly string[] {
  const { identity, classes, ports, verdicts, address, register } = layout[direction];
  const word = (coarse: number, fine: number): string => `0x${(coarse * 2 ** 20 + fine).toString(16)}`;
  const lookups = [...identities].map(([text, { coarse, fine }]) => {
    const { family, prefixLength } = parseCidr(text);
    const match = family === 'ipv4' ? `ip,nw_${address}=${text}` : `ipv6,ipv6_${address}=${text}`;
    return `table=${identity},priority=${1000 + prefixLength},${match} actions=set_field:${word(coarse.id, fine.id)}->${register}`;
  });
  let decision = 0;
  const related = [...relations].flatMap(([key, { ranges, otherwise }]) => {
    const [subject = 0, coarse, fine] = key.split(' ').map(Number);
    const peer = coarse === undefined ? '' : `,${register}=${fine === undefined ? `${word(coarse, 0)}/0xfff00000` : word(coarse, fine)}`;
    const priority = coarse === undefined ? 200 : fine === undefined ? 210 : 220;
    const match = `table=${classes},priority=${priority},reg13=0x${((subject + 2) << 11).toString(16)}/0x3ff800${peer}`;
    const said = (verdict: string): string => `set_field:${verdict === 'allow' ? '0x800' : '0xc00'}/0x1c00->reg0,goto_table:${verdicts}`;
    if (ranges.length === 0) return [`${match} actions=${said(otherwise.verdict)}`];
    decision++;
    return [
      `${match} actions=set_field:${decision}->reg12,goto_table:${ports}`,
      ...ranges.flatMap(({ protocol, outcome, ...range }) =>
        prefixesOf(range).flatMap((port) =>
          // A name of a transport is that of IPv4: ovs-fields(7).
          ['', '6'].map(
            (family) =>
              `table=${ports},priority=220,reg12=${decision},${protocol.toLowerCase()}${family}${port} actions=${said(outcome.verdict)}`,
          ),
        ),
      ),
      `table=${ports},priority=200,reg12=${decision} actions=${said(otherwise.verdict)}`,
    ];
  });
  return [...lookups, ...related];
}

function prefixesOf({ first, last }: Pick<DecidedRange, 'first' | 'last'>): readonly string[] {
  const found: string[] = [];
  for (let at = first; at <= last; ) {
    let size = 1;
    while (at % (2 * size) === 0 && at + 2 * size - 1 <= last) size *= 2;
    found.push(size === 65_536 ? '' : `,tp_dst=${at}/${65_536 - size}`);
    at += size;
  }
  return found;
}

function held(text: string): HeldFlow {
  const { cookie = 0n, table = 0, priority = 0, match, instructions } = encodeParsedFlow(parseFlow(text), 'add');
  return { table, priority, cookie, match, instructions };
}
