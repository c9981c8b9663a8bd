import { terminalOf } from '../terminal.ts';
import { runCluster } from './cluster-program.ts';

const terminal = terminalOf({ out: process.stdout, err: process.stderr, env: process.env });
// The reader of the output may stop early, as head(1) does.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 2));
process.stderr.on('error', () => undefined); // standard error is closed; the exit code is the result
process.exitCode = await runCluster(process.argv.slice(2), terminal, process.env);
