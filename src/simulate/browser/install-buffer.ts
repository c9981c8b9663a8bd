import { byteBuffers } from './byte-buffer.ts';

// Before the modules that use it when they are loaded: imported first.
if (!('Buffer' in globalThis)) Object.assign(globalThis, { Buffer: byteBuffers });
