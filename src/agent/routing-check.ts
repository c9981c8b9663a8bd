import type { HealthCheck } from '../api/health/health-check.ts';
import type { FoundProblem } from '../api/problem.ts';
import { protocolName } from '../dataplane/targets/host/exclusive-routes.ts';
import type { RouteConflict, RouteConflicts } from '../nodes/local/route-conflicts.ts';
import type { RouteDetour } from '../nodes/modes/route-detours.ts';

const CHECK_EVERY_MS = 4_000;
/** Interval between readings of all routes of the node, which may be many (ms). */
const DETOURS_EVERY_MS = 30_000;
/** Maximum number of networks that are named. */
const NAMED_MAX = 10;

/** Checks that the kernel routes packets for pods and Services as Seine's routes do. */
export function routingCheck(conflicts: Pick<RouteConflicts, 'find'>): HealthCheck {
  return {
    name: 'routing',
    everyMs: CHECK_EVERY_MS,
    run: async (signal) => {
      const taken = await conflicts.find(signal);
      return { problems: taken.slice(0, NAMED_MAX).map((way) => problemOf(way)) };
    },
  };
}

function problemOf({ network, asked, link, dev, mark }: RouteConflict) {
  const where = link === undefined ? 'nowhere' : `to interface ${link}`;
  return {
    kind: 'node',
    about: `routing/${network.text}`,
    message: `a rule or route of another program routes packets for ${network.text} ${where} instead of to ${dev}`,
    remedy: `ip route get ${asked.text}${mark === undefined ? '' : ` mark 0x${mark.toString(16)}`}; ip${asked.family === 'ipv6' ? ' -6' : ''} rule`,
  } as const;
}

/** Checks that no route of another program takes a part of the networks to which Seine has routes. */
export function detourCheck(find: () => Promise<readonly RouteDetour[]>): HealthCheck {
  return {
    name: 'route detours',
    everyMs: DETOURS_EVERY_MS,
    run: async () => ({ problems: (await find()).slice(0, NAMED_MAX).map(detourOf) }),
  };
}

function detourOf({ network, dev, part, protocol }: RouteDetour): FoundProblem {
  const family = part.family === 'ipv6' ? ' -6' : '';
  return {
    kind: 'route.detour',
    about: part.text,
    message: `a route of another program (protocol ${protocolName(protocol)}) takes packets for ${part.text}, a part of ${network.text}, which Seine sends by ${dev}`,
    remedy: `ip${family} route show ${part.text}; remove it, or exclude the pod networks in the program that writes it`,
  };
}
