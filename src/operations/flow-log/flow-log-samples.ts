import { lossCauses } from '../../api/flow-log.ts';
import { exportOutcomes } from './export/exported-item.ts';
import type { RunningFlowLog } from './running-flow-log.ts';

/** Value of a metric with its labels. */
type FlowSample = readonly [labels: Readonly<Record<string, string>>, value: number];

/** Returns the metrics of a log; of one that is off, no series with labels. Their number does not depend on pods. */
export function flowLogSamples(
  running: Pick<RunningFlowLog, 'flows' | 'exports' | 'namespaces'> | undefined,
): Readonly<
  Record<'flow_log_enabled' | 'flows_total' | 'flows_by_namespace_total' | 'flows_lost_total' | 'flow_export_total', readonly FlowSample[]>
> {
  const log = running?.flows;
  const losses = log?.lossesTotal;
  return {
    flow_log_enabled: [[{}, log ? 1 : 0]],
    flows_total: [...(log?.counters ?? [])].map(([key, count]) => {
      const [event = '', verdict = ''] = key.split(' ');
      return [{ event, verdict }, count];
    }),
    flows_by_namespace_total: (running?.namespaces?.all ?? []).map(([namespace, verdict, count]) => [{ namespace, verdict }, count]),
    flow_export_total: (running?.exports.all ?? []).flatMap(({ name, counts }) =>
      exportOutcomes.map((outcome): FlowSample => [{ exporter: name, outcome }, counts[outcome]]),
    ),
    flows_lost_total: losses ? lossCauses.map((cause) => [{ cause }, losses[cause]]) : [],
  };
}
