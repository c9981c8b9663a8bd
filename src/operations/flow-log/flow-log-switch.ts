import { LiveChoice } from '../../nodes/local/policy-mode.ts';

/** Setting that turns the flow log of a node on and off. */
export const flowLogSwitch = new LiveChoice<string>(['true', 'false'], { key: 'flowLog.enabled' });
