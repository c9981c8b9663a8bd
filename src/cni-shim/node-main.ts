import { createNodeHost } from './node-host.ts';
import { runPlugin } from './plugin.ts';

process.exitCode = await runPlugin(createNodeHost(process.env));
