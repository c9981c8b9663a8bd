/**
 * `npm run test:runtime`: pods of real container runtimes. With `--containerd` on another containerd than the host's, which is built with
 * Go if absent, and first in PATH. With `--pod-interface` the lab's agents use another kind of interface for pods.
 */
import { delimiter } from 'node:path';
import { parseArgs } from 'node:util';
import { containerdVersions } from './kubernetes/programs.mjs';
import { lastLineOf } from './setup/commands.mjs';
import { root } from './setup/paths.mjs';
import { runTests } from './test-run/run-tests.mjs';

const help = `npm run test:runtime -- [options] [arguments of vitest]: pods that containerd and podman make

  --containerd VERSION  on this one, which is built once: ${containerdVersions.join(', ')}; Debian's if absent
  --pod-interface KIND  auto, standing or veth, for all pods of the lab; the agent's default if absent
  -h, --help            this text
`;

/** Other options are vitest's. */
function parsed() {
  const options = { containerd: { type: 'string' }, 'pod-interface': { type: 'string' }, help: { type: 'boolean', short: 'h' } };
  const { tokens } = parseArgs({ options, strict: false, tokens: true, args: process.argv.slice(2) });
  const own = tokens.filter(({ kind, name }) => kind === 'option' && name in options);
  const taken = new Set(
    own.flatMap(({ index, value, inlineValue }) => (value === undefined || inlineValue ? [index] : [index, index + 1])),
  );
  const values = Object.fromEntries(own.map(({ name, value }) => [name, value ?? true]));
  return { ...values, others: process.argv.slice(2).filter((_, at) => !taken.has(at)) };
}

async function environment(version) {
  if (version === undefined) return process.env;
  const built = await lastLineOf(process.execPath, ['build/kubernetes/build.mjs', '--containerd', String(version)], { cwd: root });
  if (built === undefined) return undefined;
  return { ...process.env, PATH: [JSON.parse(built).programs, process.env.PATH].join(delimiter) };
}

const asked = parsed();
if (asked.help) process.stdout.write(help);
else {
  const kind = asked['pod-interface'];
  const env = await environment(asked.containerd);
  const chosen = kind === undefined ? env : env && { ...env, SEINE_TEST_POD_INTERFACE: String(kind) };
  process.exitCode = chosen === undefined ? 2 : await runTests(['--project', 'runtime', ...asked.others], chosen);
}
