import type { Plugin } from 'esbuild';

export declare const withoutUnusedClients: Plugin;
