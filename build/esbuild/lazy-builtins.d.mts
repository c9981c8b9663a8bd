import type { Plugin } from 'esbuild';

export declare const builtinsAsAsked: Plugin;
