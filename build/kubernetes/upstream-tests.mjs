import { existsSync, readFileSync } from 'node:fs';

/**
 * Which of upstream's tests there are to run. `focus` gives a regular expression over a test's whole name for a part of it, `short` is that part
 * for a few which take every way through the network.
 */
export const sets = {
  policy: {
    focus: (part = '') => `\\[sig-network\\].*Netpol.*${part}`,
    short: '(default-deny|based on Ports|using UDP|CIDR|named port)',
    // The userspace data path knows no SCTP, and the kernel may have no such sockets.
    skip: '\\[Feature:SCTPConnectivity\\]',
  },
  conformance: {
    focus: (part = '') => `\\[sig-network\\].*${part}.*\\[Conformance\\]`,
    short: '(Networking Granular Checks|DNS should provide DNS for services|Services should be able to|session affinity)',
    skip: '\\[Serial\\]|\\[Disruptive\\]',
  },
};

/**
 * @param {string} set one of `sets`
 * @param {{ short?: boolean | undefined, focus?: string | undefined }} asked
 */
export function focusOf(set, { short, focus }) {
  const { focus: named, short: few, skip } = sets[set];
  return { focus: named(focus === undefined ? (short ? few : '') : `(${focus})`), skip };
}

/**
 * What became of each test that ran, from ginkgo's JSON report; none if it wrote none.
 *
 * @param {string} file
 * @returns {{ name: string, state: string, seconds: number, said: string }[]}
 */
export function readResults(file) {
  if (!existsSync(file)) return [];
  const suites = JSON.parse(readFileSync(file, 'utf8'));
  return suites.flatMap(({ SpecReports: reports }) => (reports ?? []).filter(isResult).map(resultOf));
}

/** Tests that ran, and what else failed: before or after them. */
function isResult({ LeafNodeType: type, State: state }) {
  return type === 'It' ? state !== 'skipped' && state !== 'pending' : state !== 'passed' && state !== 'skipped';
}

function resultOf({
  ContainerHierarchyTexts: containers,
  LeafNodeText: text,
  LeafNodeType: type,
  State: state,
  RunTime: nanoseconds,
  Failure: failure,
}) {
  const [said = ''] = (failure?.Message ?? '').split('\n');
  return { name: [...(containers ?? []), text || type].join(' '), state, seconds: nanoseconds / 1e9, said };
}
