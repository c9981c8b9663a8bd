import { expect, it } from 'vitest';
import { flowLogSettings } from './flow-log-switch.ts';

const configured = { enabled: false, sampling: 4 } as const;

it('follows the settings of all nodes, else those of the node', () => {
  expect(flowLogSettings(undefined, configured)).toEqual({ isOn: false, sampling: 4, faults: [] });
  expect(flowLogSettings({ flowLog: 'true', flowSampling: '64' }, configured)).toEqual({ isOn: true, sampling: 64, faults: [] });
});

it('names values that do not count', () => {
  expect(flowLogSettings({ flowLog: 'on', flowSampling: '100' }, configured)).toEqual({
    isOn: false,
    sampling: 4,
    faults: [
      'flowLog.enabled in ConfigMap seine-system/seine-live is "on", which is not one of true, false: false is in force',
      'flowLog.sampling in ConfigMap seine-system/seine-live is "100", which is not one of 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024: 4 is in force',
    ],
  });
});
