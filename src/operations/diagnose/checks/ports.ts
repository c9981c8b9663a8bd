import type { Finding } from '../../../api/check.ts';
import { type Check, fine, reportAll, trouble } from './check.ts';

/** State of pre-plugged ports. */
interface StandingPortFacts {
  readonly counts: { readonly free: number; readonly used: number; readonly coming: number };
  /** Reason why the next pod would get a veth pair; undefined if it would not. `off` is `podInterface: veth`. */
  readonly obstacle: 'off' | 'noNamespace' | 'notPinned' | 'noMacvlan' | 'noneFree' | undefined;
  /** Pods that got a veth pair since the agent began, although ports are configured, by reason. */
  readonly fallbacks: ReadonlyMap<string, number>;
}

export interface StandingPortsPort {
  /** @throws SeineError `UNAVAILABLE` until the node is known */
  readonly running: () => { readonly standing: StandingPortFacts };
}

const words: Readonly<Record<'noNamespace' | 'notPinned' | 'noMacvlan' | 'noneFree', { readonly what: string; readonly remedy?: string }>> =
  {
    noNamespace: {
      what: 'the namespace of pre-plugged ports does not exist: the plugin creates it with the next pod, if mounts of the node below /run/seine are visible in the agent’s container',
      remedy: 'findmnt -o TARGET,PROPAGATION /run',
    },
    notPinned: {
      what: 'the namespace of pre-plugged ports was unmounted: pods that use it lose their network when the agent ends',
      remedy: 'findmnt -R /run/seine/netns',
    },
    noMacvlan: { what: 'the kernel does not support macvlan', remedy: 'modprobe macvlan' },
    noneFree: { what: 'no pre-plugged port is free' },
  };

/** Checks that the next pod gets a pre-plugged port, if these are configured. */
export function standingPorts({ running }: StandingPortsPort): Check {
  return { name: 'ports.standing', run: (_, reporter) => reportAll(reporter, assessPrePluggedPorts(running().standing)) };
}

export function assessPrePluggedPorts({ counts, obstacle, fallbacks }: StandingPortFacts): readonly Finding[] {
  if (obstacle === 'off') return [fine('ports.standing', 'pods get veth pairs (podInterface: veth)')];
  const before = [...fallbacks].map(([reason, pods]) => `${pods} by ${reason}`).join(', ');
  const said = `${counts.free} free, ${counts.used} used, ${counts.coming} coming${before === '' ? '' : `; pods with a pair instead: ${before}`}`;
  if (obstacle === undefined || (obstacle === 'noneFree' && counts.coming > 0)) return [fine('ports.standing', said)];
  // Usual after each start of the node. Pods that are created together before it exists all have pairs.
  if (obstacle === 'noNamespace' && counts.used === 0 && !fallbacks.has(obstacle))
    return [
      fine('ports.standing', 'none yet: the plugin creates the namespace of pre-plugged ports with the first pod, which gets a veth pair'),
    ];
  const { what, ...remedy } = words[obstacle];
  const effect = 'new pods get a veth pair, for which ovs-vswitchd processes all ports several times';
  return [trouble('ports.standing', 'warning', { what: `${what} (${said})`, effect, ...remedy })];
}
