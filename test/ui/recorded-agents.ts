import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { gunzipSync } from 'node:zlib';
import * as z from 'zod';

const answer = z.strictObject({ node: z.string(), key: z.string(), status: z.int(), body: z.string() });
const recordingSchema = z.strictObject({
  version: z.string(),
  atMs: z.int(),
  /** Lists of the API server, by path. */
  objects: z.record(z.string(), z.array(z.looseObject({}))),
  /** Answers of the agents to the requests of the page. */
  answers: z.array(answer),
});

/** Answers of a release's agents, and the objects of their cluster. */
export type AgentRecording = z.infer<typeof recordingSchema>;

/** Two releases before this one. */
export const recordedReleases = ['0.28.0', '0.29.0'] as const;

export function recordingFile(version: string): string {
  return join(resolve(import.meta.dirname, '../fixtures/agents'), `${version}.json.gz`);
}

/** @throws Error that names the command that records it */
export function readRecording(version: string): AgentRecording {
  const file = recordingFile(version);
  if (!existsSync(file)) throw new Error(`there is no ${file}: \`node test/ui/record-agents.ts ${version}\` records it`);
  return recordingSchema.parse(JSON.parse(gunzipSync(readFileSync(file)).toString('utf8')));
}

/** Parameters of a query that depend on the time, or on a number that an agent gave; others are times in milliseconds. */
const VARYING = ['since', 'until', 'at', 'number', 'seconds'];
const MILLISECONDS = /^\d{13}$/;

/** Names a request to an agent, without what differs from run to run. */
export function requestKey(method: string, target: string): string {
  const { pathname, searchParams } = new URL(target, 'http://agent');
  for (const [name, value] of [...searchParams]) if (VARYING.includes(name) || MILLISECONDS.test(value)) searchParams.delete(name);
  searchParams.sort();
  return `${method} ${pathname}?${searchParams}`;
}
