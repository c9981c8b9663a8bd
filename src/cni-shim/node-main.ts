import { seineVersion } from '../agent-api/version.ts';
import { createNodeHost } from './node-host.ts';
import { runPlugin } from './plugin.ts';

// Runtimes give no arguments.
if (process.argv.length === 3 && process.argv[2] === '--version') process.stdout.write(`seine ${seineVersion}\n`);
else process.exitCode = await runPlugin(createNodeHost(process.env));
