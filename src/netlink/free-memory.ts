import type { KoffiFunc } from 'koffi';
import { loadLibrary } from './sys.ts';

/**
 * Returns free memory of the C library to the kernel, which takes milliseconds: freed buffers lie between others that are in use. Source:
 * malloc_trim(3), an extension of the GNU C library; no effect with another one.
 */
export function returnFreeMemory(): void {
  let trim: KoffiFunc<(keep: number) => number>;
  try {
    trim = loadLibrary(['libc.so.6'], 'libc6').func('int malloc_trim(size_t)');
  } catch {
    return; // another C library
  }
  trim(0);
}
