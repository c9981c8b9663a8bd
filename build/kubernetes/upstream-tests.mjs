import { existsSync, readFileSync } from 'node:fs';

/**
 * Excluded tests of upstream's for the network, with the reasons: a regular expression over a test's name, and a line of text. All others
 * are run; upstream skips some by itself, with a reason in its report.
 */
export const leftOut = [
  { pattern: '\\[Feature:LoadBalancer\\]', why: "needs a cloud's load balancer" },
  { pattern: '\\[Provider:', why: 'for the machines of a certain cloud' },
  { pattern: '\\[Feature:SCTPConnectivity\\]', why: 'needs SCTP sockets, which the kernel of this machine does not have' },
  { pattern: '\\] KubeProxy ', why: "looks at kube-proxy's own settings and counters" },
  { pattern: 'Internet connection for containers|Forward PTR lookup', why: 'asks servers of the internet, which the lab has not' },
  { pattern: '\\[Feature:PerformanceDNS\\]', why: 'measures the server of names with ten thousand Services, one after another' },
];

/**
 * Tests that are known to fail, with the reasons. They are run all the same: a run in which one of them passes fails, like a run with
 * another failure.
 */
export const expectedFailures = [
  {
    pattern: 'LocalhostNodePorts',
    why: 'node ports are served at the addresses of the node, not at 127.0.0.1 and ::1 ([why](../services.md#how-traffic-reaches-a-service)): from ::1 Linux lets nothing leave the node, and Seine has no relay that listens there; at 127.0.0.1 they could be served as host ports are, for IPv4 alone, and are not',
  },
  {
    pattern: 'implement NodePort and HealthCheckNodePort correctly when ExternalTrafficPolicy changes',
    why: "what a node itself sends to a Service comes from the gateway's address, by which the answer finds back through the tunnel: the endpoint does not see the node's own address behind its node port, also with `externalTrafficPolicy: Local`",
  },
  {
    pattern: 'should run iperf2',
    why: 'packets flow, and the figures cannot be read: of each interval the test wants 17 fields, and the iperf of Debian 12 that the image has (2.1.8) gives 9',
  },
  { pattern: 'should check kube-proxy urls', why: "asks for kube-proxy's own `/proxyMode`; `/healthz` of the same test is answered" },
];

/**
 * Twenty tests, for a short run: pods, Services by every path, names, policy, host ports, both families. Only tests that wait until their
 * server listens: some of upstream's send one request when the container runs, which on a busy host is before the server listens.
 */
const fewOfAll = [
  'Networking Granular Checks: Pods should function for .*\\[Conformance\\]',
  'Services should serve (a basic endpoint|multiport endpoints)',
  'Services should be able to (create a functioning NodePort|change the type from (ExternalName to NodePort|ClusterIP to ExternalName))',
  'Services should (be rejected when no endpoints|allow pods to hairpin|support externalTrafficPolicy=Local for type=NodePort)',
  'Services should have session affinity work for NodePort service',
  'DNS should provide DNS for services',
  "Netpol NetworkPolicy .*('default-deny-ingress'|allow egress access to server in CIDR block|MatchLabels using default ns label|ingress access on one named port)",
  'HostPort validates',
  'IPv6DualStack\\] Granular Checks: Services Secondary IP Family \\[LinuxOnly\\] should function for pod-Service: http$',
];

/**
 * Sets of upstream's tests. `focus` gives a regular expression over a test's whole name for a part of it, `short` is that part for a few
 * which cover every path through the network.
 */
export const sets = {
  policy: {
    focus: (part = '') => `\\[sig-network\\].*Netpol.*${part}`,
    short: '(default-deny|based on Ports|using UDP|CIDR|named port)',
    // The userspace data path does not support SCTP, and the kernel may have no such sockets.
    skip: '\\[Feature:SCTPConnectivity\\]',
  },
  conformance: {
    focus: (part = '') => `\\[sig-network\\].*${part}.*\\[Conformance\\]`,
    short: '(Networking Granular Checks|DNS should provide DNS for services|Services should be able to|session affinity)',
    skip: '\\[Serial\\]|\\[Disruptive\\]',
  },
  /** Services by every address, their endpoints, and host ports; with `policy` what each traffic mode has to serve alike. */
  services: {
    focus: (part = '') => `\\[sig-network\\].*(Services|HostPort|EndpointSlice|Networking Granular).*${part}`,
    short: '(should serve|should be able to|session affinity|should function for)',
    skip: leftOut.map(({ pattern }) => pattern).join('|'),
  },
  /** All of those and the rest. */
  e2e: {
    focus: (part = '') => `\\[sig-network\\].*${part}`,
    short: `(${fewOfAll.join('|')})`,
    skip: leftOut.map(({ pattern }) => pattern).join('|'),
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
 * Result of each test that ran, from ginkgo's JSON report; none if it wrote none.
 *
 * @param {string} file
 * @returns {{ name: string, state: string, seconds: number, said: string }[]}
 */
export function readResults(file) {
  if (!existsSync(file)) return [];
  const suites = JSON.parse(readFileSync(file, 'utf8'));
  return suites.flatMap(({ SpecReports: reports }) => (reports ?? []).filter(isResult).map(resultOf));
}

/** Tests that ran, and other failures: before or after them. */
/** Unexpected failures, and tests that passed though a failure is expected. @param {ReturnType<typeof readResults>} results */
export function surprises(results) {
  const isKnown = ({ name }) => expectedFailures.some(({ pattern }) => new RegExp(pattern).test(name));
  return results.filter((result) => (result.state === 'passed') === isKnown(result));
}

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
