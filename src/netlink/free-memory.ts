import type { KoffiFunc } from 'koffi';
import { loadLibrary } from './sys.ts';

/**
 * Gives memory that the C library holds free back to the kernel, which takes milliseconds: that of buffers which are gone lies between
 * others that stay. Source: malloc_trim(3), an extension of the GNU C library; nothing happens with another one.
 */
export function returnFreeMemory(): void {
  let trim: KoffiFunc<(keep: number) => number>;
  try {
    trim = loadLibrary(['libc.so.6'], 'libc6').func('int malloc_trim(size_t)');
  } catch {
    return; // it is another one
  }
  trim(0);
}
