import type { HealthCheck } from '../api/health/health-check.ts';
import type { RouteConflict, RouteConflicts } from '../nodes/local/route-conflicts.ts';

const CHECK_EVERY_MS = 4_000;
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
