import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { runLogged } from '../setup/commands.mjs';
import { exclusively } from '../setup/lock.mjs';
import { say } from '../setup/progress.mjs';
import { contentHash } from '../setup/stamps.mjs';
import { builtProgram } from './programs.mjs';

const manifest = join(import.meta.dirname, 'otelcol.yaml');

/**
 * Builds the OpenTelemetry collector with the components of `otelcol.yaml` by its own builder, unless it is in the cache. The first time
 * takes minutes.
 *
 * @returns {Promise<string>} its path, outside of the checkout
 * @throws SetupError if there is no Go, or the build fails
 */
export async function builtCollector(environment = process.env) {
  const cache = environment.XDG_CACHE_HOME || join(homedir(), '.cache');
  const folder = join(cache, 'seine', 'go', `otelcol-${contentHash([manifest]).slice(0, 12)}`);
  const program = join(folder, 'seine-otelcol');
  if (existsSync(program)) return program;
  const builder = await builtProgram('builder');
  await exclusively(join(dirname(folder), 'build.lock'), async () => {
    if (existsSync(program)) return;
    say('building the OpenTelemetry collector, once');
    const draft = `${folder}.draft`;
    rmSync(draft, { recursive: true, force: true });
    mkdirSync(draft, { recursive: true });
    writeFileSync(`${draft}.yaml`, readFileSync(manifest, 'utf8').replace('OUTPUT', draft));
    await runLogged('go-otelcol', builder, ['--config', `${draft}.yaml`], {
      env: { CGO_ENABLED: '0' },
      remedy: 'read the log; `go env GOPROXY` prints where modules come from',
    });
    rmSync(`${draft}.yaml`);
    rmSync(folder, { recursive: true, force: true });
    renameSync(draft, folder);
  });
  return program;
}
