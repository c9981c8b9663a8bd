import { expect, it } from 'vitest';
import { configKeys, parseConfig } from './agent-config.ts';
import { changedSwitches, switchDefault, switches } from './feature-keys.ts';

const environment = { NODE_NAME: 'n1' };

it('lists nothing for the default configuration', () => {
  expect(changedSwitches(parseConfig('', environment))).toEqual([]);
  expect(changedSwitches(parseConfig('{logLevel: debug, policy: {mode: enforce}}', environment))).toEqual([]);
});

it('lists keys with other values than the default, and the default', () => {
  const config = parseConfig('{noSNAT: true, policy: {mode: audit}, proxy: {bucketTranslation: false}}', environment);
  expect(changedSwitches(config)).toEqual([
    'noSNAT=true (default false)',
    'proxy.bucketTranslation=false (default true)',
    'policy.mode=audit (default enforce)',
  ]);
});

it('has a default for each, and each once', () => {
  expect(switches.filter((key) => !configKeys().includes(key) || switchDefault(key) === '')).toEqual([]);
  expect(new Set(switches).size).toBe(switches.length);
  expect(() => switchDefault('proxy')).toThrow('proxy is not a switch');
});
