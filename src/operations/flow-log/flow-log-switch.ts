import { LiveChoice } from '../../nodes/local/policy-mode.ts';
import { type Sampling, samplingChoices } from './sources/sampled-connections.ts';

/** Setting that turns the flow log of a node on and off. */
const enabled = new LiveChoice<string>(['true', 'false'], { key: 'flowLog.enabled' });
const sampling = new LiveChoice<string>(samplingChoices.map(String), { key: 'flowLog.sampling' });

/** Settings in force, and the reasons why set values do not count, one sentence each. */
interface FlowLogSettings {
  readonly isOn: boolean;
  readonly sampling: Sampling;
  readonly faults: readonly string[];
}

/**
 * Returns the settings of a node: those of all nodes, else its own. Pure.
 *
 * @param live values of the ConfigMap `seine-live`; any may be invalid
 */
export function flowLogSettings(
  live: { readonly flowLog?: string; readonly flowSampling?: string } | undefined,
  configured: { readonly enabled: boolean; readonly sampling: Sampling },
): FlowLogSettings {
  const reported = {
    enabled: { live: live?.flowLog, configured: String(configured.enabled) },
    sampling: { live: live?.flowSampling, configured: String(configured.sampling) },
  };
  const inForce = sampling.of(reported.sampling);
  return {
    isOn: enabled.of(reported.enabled) === 'true',
    sampling: samplingChoices.find((choice) => String(choice) === inForce) ?? configured.sampling,
    faults: [...enabled.faults(reported.enabled), ...sampling.faults(reported.sampling)],
  };
}
