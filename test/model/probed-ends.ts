import { expect } from 'vitest';
import { parseIp } from '../../src/base/net/ip.ts';
import { answerOf, lookUp } from '../../src/policy/matrix/interpret.ts';
import type { PolicyMatrix } from '../../src/policy/matrix/matrix.ts';
import type { PolicyBytes } from '../../src/policy/verify/flow-reader/flow-reader.ts';
import type { EditedNode } from './edited-node.ts';

const probedPorts: Readonly<Record<string, readonly (number | undefined)[]>> = {
  TCP: [0, 1, 52, 53, 80, 81, 443, 8080, 65_535],
  UDP: [53, 80, 8080],
  SCTP: [80],
  ICMP: [undefined],
};

/** Verdict of each probe, by its text, `ingress shop/db 10.1.0.5 TCP 80`, as `allow` or `deny`. */
export type Verdicts = ReadonlyMap<string, string>;

/** Ends of all local pods that each of these has, with their addresses in each: a pod recreated elsewhere is another one. */
function ends(matrices: readonly PolicyMatrix[], addresses: readonly string[]) {
  const [first] = matrices;
  const ofFirst = (pod: string): string | undefined => first?.subjects.get(pod)?.addresses.join();
  const pods = [...(first?.subjects.keys() ?? [])].filter((pod) =>
    matrices.every(({ subjects }) => subjects.get(pod)?.addresses.join() === ofFirst(pod)),
  );
  return pods.flatMap((pod) =>
    (['ingress', 'egress'] as const).flatMap((direction) => addresses.map((address) => ({ pod, direction, address }))),
  );
}

/** Verdicts of the bridge for probes. @param matrix has the pods' own addresses */
export function verdictsOf(
  bytes: PolicyBytes,
  node: EditedNode,
  matrix: PolicyMatrix,
  { matrices, addresses }: { readonly matrices: readonly PolicyMatrix[]; readonly addresses: readonly string[] },
): Verdicts {
  const verdicts = new Map<string, string>();
  for (const { pod, direction, address } of ends(matrices, addresses)) {
    const peer = parseIp(address);
    const own = matrix.subjects
      .get(pod)
      ?.addresses.map(parseIp)
      .find(({ family }) => family === peer.family);
    if (!own) continue;
    const { outcomes } = bytes.decide({ direction, ofPort: node.portOf(pod), own, peer });
    for (const [protocol, all] of Object.entries(probedPorts))
      for (const port of all) {
        const stream = outcomes.find((each) => each.protocol === protocol && each.first <= (port ?? 0) && each.last >= (port ?? 0));
        verdicts.set(`${direction} ${pod} ${address} ${protocol} ${port}`, stream?.verdict === 'allow' ? 'allow' : 'deny');
      }
  }
  expect(bytes.problems).toEqual([]);
  return verdicts;
}

/**
 * Its verdicts for all probes that these have in common; packets of this node or the pod itself are admitted by their path, which these
 * probes do not take.
 */
export function saidBy(matrix: PolicyMatrix, matrices: readonly PolicyMatrix[], addresses: readonly string[]): Verdicts {
  const said = new Map<string, string>();
  for (const { pod, direction, address } of ends(matrices, addresses)) {
    const found = lookUp(matrix, { pod, direction, address });
    if ('why' in found && (found.why === 'own node' || found.why === 'itself')) continue;
    for (const [protocol, all] of Object.entries(probedPorts))
      for (const port of all) {
        const { verdict } = answerOf(found, { protocol, ...(port === undefined ? {} : { port }) });
        said.set(`${direction} ${pod} ${address} ${protocol} ${port}`, verdict);
      }
  }
  return said;
}

/**
 * @param parts number of parts of a probe's text that are judged as a whole: 2 an end of a pod, 3 a pair of a pod and an address
 * @param said by each of the policies that may apply, the last ones last
 * @returns wholes that none of them matches, each with a packet for which the last one differs
 */
export function mixtures(verdicts: Verdicts, said: readonly Verdicts[], parts: number): readonly string[] {
  const left = new Map<string, Map<number, string>>();
  for (const [at, each] of said.entries())
    for (const [probe, verdict] of each) {
      const whole = probe.split(' ', parts).join(' ');
      const others = left.get(whole) ?? new Map<number, string>();
      left.set(whole, others);
      if (verdicts.get(probe) !== verdict) others.set(at, `${probe}: ${verdicts.get(probe)}`);
    }
  return [...left.values()].flatMap((others) => (others.size === said.length ? [...others.values()].slice(-1) : []));
}
