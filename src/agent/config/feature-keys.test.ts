import { expect, it } from 'vitest';
import { configKeys, parseConfig } from './agent-config.ts';
import { changedSwitches, switchDefault, switches } from './feature-keys.ts';

const environment = { NODE_NAME: 'n1' };

it('says of no configuration that anything is changed', () => {
  expect(changedSwitches(parseConfig('', environment))).toEqual([]);
  expect(changedSwitches(parseConfig('{logLevel: debug, policy: {mode: enforce}}', environment))).toEqual([]);
});

it('says what is not the default, and what that is', () => {
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
  expect(() => switchDefault('proxy')).toThrow('proxy is no switch');
});
