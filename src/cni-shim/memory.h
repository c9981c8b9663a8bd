/*
 * The engine's memory. A run of the plugin asks some thousand times for a few octets each and ends: small blocks are cut from large ones, and what is freed
 * is kept for the next of its size. Static C libraries that start quickly have an allocator that is not.
 */
#ifndef SEINE_MEMORY_H
#define SEINE_MEMORY_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "quickjs.h"

#define GRAIN 16
#define SMALL_MAX 1024
#define CHUNK (256 * 1024)

/* Before each block. */
union block {
  struct {
    size_t size; /* of what follows */
    union block *next; /* while it is free */
  };
  char aligned[GRAIN];
};

static union block *free_blocks[SMALL_MAX / GRAIN + 1];
static char *chunk, *chunk_end;

static union block *block_of(const void *memory) { return (union block *)memory - 1; }

static size_t memory_size(const void *memory) { return memory ? block_of(memory)->size : 0; }

static union block *cut_small(size_t size) {
  union block **list = &free_blocks[size / GRAIN], *block = *list;
  if (block) {
    *list = block->next;
    return block;
  }
  if ((size_t)(chunk_end - chunk) < sizeof *block + size) {
    char *fresh = malloc(CHUNK);
    if (!fresh) return NULL;
    chunk = fresh;
    chunk_end = fresh + CHUNK;
  }
  block = (union block *)chunk;
  chunk += sizeof *block + size;
  return block;
}

static void *memory_take(JSMallocState *state, size_t size) {
  if (size > SIZE_MAX / 2 || state->malloc_size + size > state->malloc_limit) return NULL;
  size = (size + GRAIN - 1) / GRAIN * GRAIN;
  union block *block = size <= SMALL_MAX ? cut_small(size) : malloc(sizeof *block + size);
  if (!block) return NULL;
  block->size = size;
  state->malloc_count++;
  state->malloc_size += size + sizeof *block;
  return block + 1;
}

static void memory_free(JSMallocState *state, void *memory) {
  if (!memory) return;
  union block *block = block_of(memory);
  state->malloc_count--;
  state->malloc_size -= block->size + sizeof *block;
  if (block->size > SMALL_MAX) {
    free(block);
    return;
  }
  block->next = free_blocks[block->size / GRAIN];
  free_blocks[block->size / GRAIN] = block;
}

static void *memory_resize(JSMallocState *state, void *memory, size_t size) {
  if (size == 0) {
    memory_free(state, memory);
    return NULL;
  }
  size_t old = memory_size(memory);
  if (memory && size <= old && old <= SMALL_MAX) return memory;
  void *moved = memory_take(state, size);
  if (!moved || !memory) return moved;
  memcpy(moved, memory, old < size ? old : size);
  memory_free(state, memory);
  return moved;
}

static const JSMallocFunctions engine_memory = {memory_take, memory_free, memory_resize, memory_size};

#endif
