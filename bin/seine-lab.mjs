#!/usr/bin/env node
import { launch } from './launch.mjs';

await launch('seine-lab.mjs', 'lab/main.ts');
