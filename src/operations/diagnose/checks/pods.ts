import type { Finding } from '../../../api/check.ts';
import type { LoopTurns } from '../../../base/async/loop-turns.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import type { NodeEnvironment } from '../../../dataplane/compile/environment.ts';
import { readDatapathFacts } from '../../../dataplane/targets/switch/datapath-facts.ts';
import type { SwitchDatabase } from '../../../dataplane/targets/switch/switch-database.ts';
import { readPodInterface } from '../../../netlink/pod-interfaces/pod-interface.ts';
import type { OpenFlowConnection } from '../../../openflow/connection/connection.ts';
import { isAttached } from '../../../pods/ipam/attached-lease.ts';
import type { Ipam } from '../../../pods/ipam/ipam.ts';
import { podName } from '../../../pods/ipam/lease.ts';
import { type Check, fine, reportAll, trouble } from './check.ts';

/** Maximum number of pods that are named for each finding. */
const NAMED_MAX = 5;

interface PodLinkFacts {
  readonly pod: string;
  readonly netns: string;
  readonly ifName: string;
  /** Undefined if it does not exist, or its namespace does not. */
  readonly link: { readonly mtu: number; readonly transmitChecksum: 'on' | 'off' } | undefined;
}

export interface PodLinksPort {
  readonly config: { readonly ovsDatapathType: 'system' | 'netdev' };
  readonly database: SwitchDatabase;
  readonly openflow: OpenFlowConnection;
  readonly turns: Pick<LoopTurns, 'due' | 'next'>;
  /** @throws SeineError `UNAVAILABLE` until the node is known */
  readonly running: () => { readonly ipam: Pick<Ipam, 'leases'>; readonly environment: NodeEnvironment };
}

/** Checks the inside of each pod: checksum offload, and maximum packet size. */
export function podLinks({ config, database, openflow, turns, running }: PodLinksPort): Check {
  return {
    name: 'pods',
    run: async (_, reporter, signal) => {
      const { ipam, environment } = running();
      const links: PodLinkFacts[] = [];
      const facts = await readDatapathFacts(config.ovsDatapathType, { database, openflow }, signal);
      for (const lease of ipam.leases().filter(isAttached)) {
        if (lease.state !== 'allocated') continue;
        links.push({ pod: podName(lease), netns: lease.netns, ifName: lease.ifName, link: inspectNetns(lease) });
        if (turns.due) await turns.next();
        signal.throwIfAborted();
      }
      reportAll(reporter, assessPods(links, { mtu: environment.gateway.mtu, fillIn: !facts.fillsChecksums }));
    },
  };
}

function inspectNetns({ netns, ifName }: { readonly netns: string; readonly ifName: string }): PodLinkFacts['link'] {
  try {
    const state = readPodInterface(netns, ifName);
    if (state === undefined) return undefined;
    const { link, offloads } = state;
    // An interface over a pre-plugged port leaves checksums to the far end below it, which computes them.
    return { mtu: link.mtu, transmitChecksum: link.kind === 'macvlan' ? 'off' : offloads.transmitChecksum };
  } catch (thrown) {
    if (SeineError.from(thrown, netns).code === 'INVARIANT') throw thrown;
    return undefined;
  }
}

/** @param fillIn whether pods must compute checksums themselves, because the data path does not */
export function assessPods(
  facts: readonly PodLinkFacts[],
  { mtu, fillIn }: { readonly mtu: number; readonly fillIn: boolean },
): readonly Finding[] {
  const gone = facts.filter(({ link }) => link === undefined);
  const broken = facts.filter(({ link }) => fillIn && link?.transmitChecksum === 'on');
  const long = facts.filter(({ link }) => (link?.mtu ?? 0) > mtu);
  const findings = [
    ...named(gone, ({ pod, netns, ifName }) =>
      trouble('pods.interface', 'problem', {
        what: `${pod} has no ${ifName} in ${netns}`,
        effect: 'the pod has no network',
        remedy: `kubectl delete pod -n ${pod.replace('/', ' ')}`,
      }),
    ),
    ...named(broken, ({ pod, netns, ifName }) =>
      trouble('pods.checksum', 'problem', {
        what: `${pod}: ${ifName} leaves checksums to the device, and the userspace data path fills in none`,
        effect: 'TCP and UDP that the pod sends arrive broken and are dropped; ping works',
        remedy: `${inside(netns)} ethtool -K ${ifName} tx off`,
      }),
    ),
    ...named(long, ({ pod, netns, ifName, link }) =>
      trouble('pods.mtu', 'problem', {
        what: `${pod}: the MTU of ${ifName} is ${link?.mtu} and not ${mtu}`,
        effect: 'its longer packets do not fit into the tunnel and are dropped: connections hang once they carry much',
        remedy: `${inside(netns)} ip link set ${ifName} mtu ${mtu}`,
      }),
    ),
  ];
  return findings.length > 0
    ? findings
    : [
        fine(
          'pods',
          `${facts.length === 1 ? '1 pod' : `${facts.length} pods`}: MTU ${mtu} at most${fillIn ? ', checksums filled in' : ''}`,
        ),
      ];
}

function named<T>(facts: readonly T[], reporter: (fact: T) => Finding): readonly Finding[] {
  const findings = facts.slice(0, NAMED_MAX).map(reporter);
  const [last] = findings.slice(-1);
  if (facts.length <= NAMED_MAX || !last) return findings;
  return [...findings.slice(0, -1), { ...last, what: `${last.what}; and ${facts.length - NAMED_MAX} more pods alike` }];
}

/** Paths of namespaces come from a runtime, names of pods from the API: if one has a character that a shell interprets, it is quoted. */
function inside(netns: string): string {
  return `nsenter --net=${/^[A-Za-z0-9_./-]+$/.test(netns) ? netns : `'${netns.replaceAll("'", "'\\''")}'`}`;
}
