import type { Family } from '../../src/base/net/ip.ts';
import { ask, type Outcome } from '../probe/probe.ts';
import { guardedNamespace, guardedPod } from './guarded.ts';
import { type DemoCheck, demoPod, eventually, inParallel, ofFamily, outcomeText, type Scene, type Verdict } from './scene.ts';
import { demoNamespace, podPort } from './workload.ts';

/** A denial without an answer is seen as no answer for this time (ms). */
const deniedMs = 700;
const answerMs = 3_000;
/** Agents on an emulated host beside other work follow a change after 12 s. */
const followWithinMs = 60_000;

/** Attempt of a client to reach the guarded pod. */
interface Attempt {
  readonly label: string;
  readonly protocol: 'tcp' | 'udp';
  readonly outcome: Outcome;
}

/** Traffic that a ClusterNetworkPolicy denies although a NetworkPolicy allows it, for one family: without an answer, and with one. */
export function clusterPolicyChecks(scene: Scene, family: Family): DemoCheck[] {
  return [
    { name: `clusterpolicy.deny.${family}`, run: () => whileDenied(scene, family, {}, isDropped) },
    { name: `policy.reject.${family}`, run: () => whileDenied(scene, family, { 'seine.dev/denied': 'reject' }, isRefused) },
  ];
}

function isDropped({ outcome }: Attempt): boolean {
  return outcome.is === 'TIMEOUT';
}

/** A connection is reset; a datagram is answered by ICMP "administratively prohibited". */
function isRefused({ protocol, outcome }: Attempt): boolean {
  return protocol === 'tcp' ? outcome.is === 'REFUSED' : outcome.is === 'UNREACHABLE';
}

/** Denies the clients by a policy of the Admin tier, compares what they experience, and removes the policy. */
async function whileDenied(
  scene: Scene,
  family: Family,
  annotations: Readonly<Record<string, string>>,
  expected: (attempt: Attempt) => boolean,
): Promise<Verdict> {
  const name = `deny-clients-${family}`;
  const before = await eventually(
    () => compared(scene, family, answerMs, ({ outcome }) => outcome.is === 'OK', 'answered before'),
    followWithinMs,
  );
  if (!before.ok) return before;
  await scene.putClusterPolicy(denyClients(name, annotations));
  const patience = expected === isDropped ? deniedMs : answerMs;
  const word = expected === isDropped ? 'dropped' : 'refused';
  let denied: Verdict;
  try {
    denied = await eventually(() => compared(scene, family, patience, expected, word), followWithinMs);
  } finally {
    await scene.removeClusterPolicy(name);
  }
  if (!denied.ok) return denied;
  const after = await eventually(
    () => compared(scene, family, answerMs, ({ outcome }) => outcome.is === 'OK', 'answered again'),
    followWithinMs,
  );
  return after.ok ? { ok: true, detail: `${denied.detail}, ${after.detail}` } : after;
}

/** Sends from the client of each node by TCP and UDP. */
async function compared(
  scene: Scene,
  family: Family,
  timeoutMs: number,
  expected: (attempt: Attempt) => boolean,
  word: string,
): Promise<Verdict> {
  const target = scene.status.pods.find((pod) => pod.namespace === guardedNamespace && pod.name === guardedPod);
  const address = ofFamily(target?.ips ?? [], family);
  const tries = scene.plan.nodes.flatMap((_, index) => (['tcp', 'udp'] as const).map((protocol) => ({ protocol, number: index + 1 })));
  const attempts = await inParallel(tries, async ({ protocol, number }): Promise<Attempt> => {
    const from = demoPod(scene, 'client', number);
    const outcome = await ask({ from: from.netns, address, protocol, port: podPort, timeoutMs });
    return { label: `${from.name} → ${guardedPod} ${protocol}`, protocol, outcome };
  });
  const others = attempts.filter((attempt) => !expected(attempt)).map(({ label, outcome }) => `${label}: ${outcomeText(outcome)}`);
  const detail = `${attempts.length - others.length} of ${attempts.length} ${word}`;
  return { ok: others.length === 0, detail: [detail, ...others.slice(0, 4)].join('; ') };
}

function denyClients(name: string, annotations: Readonly<Record<string, string>>): object {
  const namespaceOf = (label: string) => ({ matchLabels: { 'kubernetes.io/metadata.name': label } });
  return {
    apiVersion: 'policy.networking.k8s.io/v1beta1',
    kind: 'ClusterNetworkPolicy',
    metadata: { name, annotations },
    spec: {
      tier: 'Admin',
      priority: 10,
      subject: { namespaces: namespaceOf(guardedNamespace) },
      ingress: [
        {
          action: 'Deny',
          from: [{ pods: { namespaceSelector: namespaceOf(demoNamespace), podSelector: { matchLabels: { app: 'client' } } } }],
        },
      ],
    },
  };
}
