import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { asked } from '../../build/manifests/asked.ts';

const digest = `sha256:${'0123456789abcdef'.repeat(4)}`;
const accepted = [
  'seine.invalid/agent:0.23.0',
  `registry.example:5000/seine/agent@${digest}`,
  `192.0.2.1:5000/seine/agent:0.23.0@${digest}`,
  `[2001:db8::1]:5000/seine/agent@${digest}`,
  'localhost/seine/agent:test',
];
const refused = [
  'registry.example/seine/agent',
  'registry.example:5000/seine/agent',
  'registry.example/seine/agent@DIGEST',
  `registry.example/seine/agent@${digest.slice(0, -1)}`,
  'registry.example/Seine/agent:1',
  'registry.example/seine/agent:1 --privileged',
  'registry.example/seine/agent:1\n',
];

const schemaFile = join(import.meta.dirname, '..', '..', 'build', 'helm', 'seine', 'values.schema.json');
const schema = z.looseObject({ properties: z.record(z.string(), z.looseObject({ pattern: z.string().optional() })) });

it('renders images with a tag or a digest, and refuses other names with a remedy', () => {
  for (const option of ['--agent-image', '--ovs-image']) {
    for (const name of accepted) expect(() => asked([option, name])).not.toThrow();
    for (const name of refused)
      expect(() => asked([option, name])).toThrow(`${option} ${name}: not the name of an image with a tag or a digest`);
  }
});

it('has the same rule in the chart', () => {
  const { properties } = schema.parse(JSON.parse(readFileSync(schemaFile, 'utf8')));
  for (const key of ['agentImage', 'ovsImage']) {
    const pattern = new RegExp(properties[key]?.pattern ?? '^no pattern$');
    for (const name of ['', ...accepted]) expect(name).toMatch(pattern);
    for (const name of refused) expect(name).not.toMatch(pattern);
  }
});
