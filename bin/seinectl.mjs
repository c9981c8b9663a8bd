#!/usr/bin/env node
import { launch } from './launch.mjs';

await launch('seinectl.mjs', 'src/cli/main.ts');
