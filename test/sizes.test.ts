import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseSync } from 'oxc-parser';
import { expect, it } from 'vitest';
import { root } from './support/source-tree.ts';

/*
 * Sizes of files and functions. A limit is a question: can a name be given to a part? Functions for which the answer is no are listed with
 * the reason.
 */

const FILE_LINES_MAX = 400;
const FUNCTION_LINES_MAX = 40;

/** Reasons of larger functions. */
const construction = 'constructs the parts of one object and connects them, without a branch';
const cases = 'one case for each kind of value';
const table = 'data: one object of literals';
const order = 'steps in an order that is the subject of the function';

const larger: Readonly<Record<string, string>> = {
  'src/agent/admin-ports.ts adminPorts': construction,
  'src/agent/agent.ts createAgent': construction,
  'src/agent/agent.ts openNode': construction,
  'src/agent/node-start.ts startNode': order,
  'src/agent/node-state.ts openNodeState': construction,
  'src/agent/pods.ts openPods': construction,
  'src/agent/policy.ts openPolicy': construction,
  'src/dataplane/compile/compile-firewall.ts compileFirewall': table,
  'src/dataplane/compile/compile-node.ts compileNode': table,
  'src/dataplane/pipeline/format.ts formatStep': cases,
  'src/dataplane/switch-model/switch-model.ts step': cases,
  'src/nodes/local/node-environment.ts resolveEnvironment': table,
  'src/policy/flows/direction-flows.ts round': order,
  'src/policy/flows/inherited-rows.ts read': order,
  'src/seinectl/bundle/collect.ts collectBundle': order,
  'src/seinectl/reach/reach-commands.ts addReach': table,
  'src/seinectl/simulate/simulate-command.ts addSimulate': table,
  'src/seinectl/timeline/timeline-command.ts addTimeline': table,
  'src/operations/admin/routes.ts operatorRoutes': table,
  'src/services/controller/open-services.ts openServices': construction,
  'src/dataplane/reconcile/testing/reconciler-setup.ts reconcilerScene': construction,
  'src/operations/admin/metrics/scrape.ts ofNode': table,
  'src/policy/verify/proof/prove.ts prove': order,
  'src/dataplane/targets/bridge/encoding/to-openflow.ts toAction': cases,
  'lab/daemon/daemon.ts routesOf': table,
  'lab/plan/plan.ts planLab': order,
  'build/docs/pages.ts generatedPages': table,
  'build/images/provenance.mjs provenanceOf': table,
  'build/manifests/grants.ts agentGrants': table,
  'build/manifests/ovs-daemon-set.ts ovsDaemonSet': table,
};

const sources = ['src', 'lab', 'build'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => /\.(?:ts|mjs)$/.test(path) && !path.includes('node_modules') && !path.endsWith('schema-data.ts'))
    .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') })),
);

it('has no file of more than 400 lines', () => {
  expect(sources.filter(({ text }) => linesIn(text) - 1 > FILE_LINES_MAX).map(({ path }) => path)).toEqual([]);
});

it('has no function of more than 40 lines without a reason', () => {
  const found = sources.filter(({ path }) => !path.endsWith('.test.ts')).flatMap(largeFunctions);
  expect(found.filter((name) => !Object.hasOwn(larger, name))).toEqual([]);
  expect(Object.keys(larger).filter((name) => !found.includes(name))).toEqual([]);
});

function largeFunctions({ path, text }: (typeof sources)[number]): readonly string[] {
  const found: string[] = [];
  const visit = (node: unknown, name: string): void => {
    if (typeof node !== 'object' || node === null) return;
    const own = nameOf(node) ?? name;
    if (isFunction(node) && linesIn(text.slice(node.start, node.end)) > FUNCTION_LINES_MAX) found.push(`${path} ${own}`);
    for (const child of Object.values(node)) visit(child, own);
  };
  visit(parseSync(path, text).program, '');
  return found;
}

function isFunction(node: object): node is { readonly start: number; readonly end: number } {
  return 'type' in node && /^(?:FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/.test(String(node.type));
}

function nameOf(node: object): string | undefined {
  for (const member of ['id', 'key'] as const) {
    const named: unknown = (node as Readonly<Record<string, unknown>>)[member];
    if (typeof named === 'object' && named !== null && 'name' in named && typeof named.name === 'string') return named.name;
  }
  return undefined;
}

function linesIn(text: string): number {
  return text.split('\n').length;
}
