import { seineVersion } from '../api/version.ts';
import { joinAgent } from './join.ts';
import { createNodeHost } from './node-host.ts';
import { runPlugin } from './plugin.ts';
import { probeAgent } from './probe.ts';

// Runtimes pass no arguments.
const [first, ...others] = process.argv.slice(2);
if (first === '--version' && others.length === 0) process.stdout.write(`seine ${seineVersion}\n`);
else if (first === '--probe' || first === '--join') {
  const { exit, stderr } = await (first === '--probe' ? probeAgent(others) : joinAgent(others, process));
  process.stderr.write(stderr);
  process.exitCode = exit;
} else process.exitCode = await runPlugin(createNodeHost(process.env));
