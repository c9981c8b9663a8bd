import { exitCodes } from './exit-codes.ts';
import { run } from './program.ts';
import { terminalOf } from './terminal.ts';

const terminal = terminalOf({ out: process.stdout, err: process.stderr, env: process.env });
// The reader of the output may stop early, like head(1).
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? exitCodes.ok : exitCodes.usage));
process.stderr.on('error', () => undefined); // standard error is closed: the exit code is sufficient
process.exitCode = await run(process.argv.slice(2), terminal, process.stdin);
