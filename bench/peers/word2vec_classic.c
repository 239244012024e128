/* The classic skip-gram algorithm with negative sampling, re-implemented from its publication
 * (Mikolov et al., "Distributed Representations of Words and Phrases and their Compositionality",
 * 2013) and the known behaviour of the authors' program, which is not part of this tree: one
 * thread, one (centre, context) pair at a time, 1 positive and N negatives of its own for each
 * pair, a table of 1000 sigmoids over +-6, negatives from a table of 1e8 words by count^0.75, a
 * 64-bit linear congruential generator, linear decay of the learning rate, text read character by
 * character with a hash table of words, sentences of at most 1000 words that end at a line break.
 *
 * Build: gcc -O3 -march=native -funroll-loops word2vec_classic.c -lm
 * Usage: word2vec_classic TEXT DIM WINDOW NEGATIVES SUBSAMPLE MIN_COUNT EPOCHS
 * Prints one JSON object: words per second of CPU time, while training, counted as in the text. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_WORD 100
#define MAX_SENTENCE 1000
#define HASH_SIZE 30000000
#define TABLE_SIZE 100000000
#define SIGMOIDS 1000
#define MAX_SCORE 6

typedef float real;
struct word {
  long long count;
  char *text;
};

static struct word *vocabulary;
static int *hash_table;
static long long vocabulary_size = 0, vocabulary_room = 1000, train_words = 0;
static int *unigrams;
static real *input, *output, *sigmoids;
static long long dim = 100;
static int window = 5, negatives = 5, min_count = 5, epochs = 1;
static real subsample = 1e-3f, first_rate = 0.025f;

/* The next word; a line break is the word </s>. */
static void read_word(char *text, FILE *file) {
  int length = 0, c;
  while ((c = fgetc(file)) != EOF) {
    if (c == '\r') continue;
    if (c == ' ' || c == '\t' || c == '\n') {
      if (length > 0) {
        if (c == '\n') ungetc(c, file);
        break;
      }
      if (c == '\n') {
        strcpy(text, "</s>");
        return;
      }
      continue;
    }
    if (length < MAX_WORD - 2) text[length++] = (char)c;
  }
  text[length] = 0;
}

static unsigned hash_of(const char *text) {
  unsigned long long hash = 0;
  for (; *text; ++text) hash = hash * 257 + (unsigned char)*text;
  return (unsigned)(hash % HASH_SIZE);
}

static int find(const char *text) {
  unsigned hash = hash_of(text);
  while (hash_table[hash] != -1) {
    if (strcmp(text, vocabulary[hash_table[hash]].text) == 0) return hash_table[hash];
    hash = (hash + 1) % HASH_SIZE;
  }
  return -1;
}

static void insert(int id) {
  unsigned hash = hash_of(vocabulary[id].text);
  while (hash_table[hash] != -1) hash = (hash + 1) % HASH_SIZE;
  hash_table[hash] = id;
}

static int add(const char *text) {
  if (vocabulary_size + 1 >= vocabulary_room) {
    vocabulary_room += 1000;
    vocabulary = realloc(vocabulary, (size_t)vocabulary_room * sizeof(struct word));
  }
  vocabulary[vocabulary_size].text = strdup(text);
  vocabulary[vocabulary_size].count = 0;
  insert((int)vocabulary_size);
  return (int)vocabulary_size++;
}

static int by_count(const void *a, const void *b) {
  const long long left = ((const struct word *)a)->count, right = ((const struct word *)b)->count;
  return left < right ? 1 : left > right ? -1 : 0;
}

static void learn_vocabulary(FILE *file) {
  char text[MAX_WORD];
  long long kept = 1;
  memset(hash_table, -1, sizeof(int) * HASH_SIZE);
  add("</s>");
  for (;;) {
    int id;
    read_word(text, file);
    if (feof(file)) break;
    id = find(text);
    if (id < 0) id = add(text);
    ++vocabulary[id].count;
  }
  qsort(vocabulary + 1, (size_t)(vocabulary_size - 1), sizeof(struct word), by_count);
  memset(hash_table, -1, sizeof(int) * HASH_SIZE);
  insert(0);
  train_words = vocabulary[0].count;
  for (; kept < vocabulary_size && vocabulary[kept].count > min_count; ++kept) {
    insert((int)kept);
    train_words += vocabulary[kept].count;
  }
  vocabulary_size = kept;
}

static void fill_unigrams(void) {
  double sum = 0, share;
  long long i, id = 0;
  unigrams = malloc(sizeof(int) * TABLE_SIZE);
  for (i = 0; i < vocabulary_size; ++i) sum += pow((double)vocabulary[i].count, 0.75);
  share = pow((double)vocabulary[0].count, 0.75) / sum;
  for (i = 0; i < TABLE_SIZE; ++i) {
    unigrams[i] = (int)id;
    if ((double)i / TABLE_SIZE > share && id < vocabulary_size - 1) {
      share += pow((double)vocabulary[++id].count, 0.75) / sum;
    }
  }
}

static void initialise(void) {
  unsigned long long random = 1;
  const size_t bytes = (size_t)(vocabulary_size * dim) * sizeof(real);
  long long i;
  input = aligned_alloc(128, (bytes + 127) / 128 * 128);
  output = aligned_alloc(128, (bytes + 127) / 128 * 128);
  memset(output, 0, bytes);
  for (i = 0; i < vocabulary_size * dim; ++i) {
    random = random * 25214903917ULL + 11;
    input[i] = (((random & 0xFFFF) / (real)65536) - 0.5f) / (real)dim;
  }
  sigmoids = malloc(sizeof(real) * (SIGMOIDS + 1));
  for (i = 0; i < SIGMOIDS; ++i) {
    const double e = exp(((double)i / SIGMOIDS * 2 - 1) * MAX_SCORE);
    sigmoids[i] = (real)(e / (e + 1));
  }
}

static void train_pair(int context, int centre, real rate, real *change,
                       unsigned long long *random) {
  real *in = input + context * dim;
  long long c;
  int n;
  for (c = 0; c < dim; ++c) change[c] = 0;
  for (n = 0; n < negatives + 1; ++n) {
    int target = centre, label = 1;
    real *out, score = 0, g;
    if (n > 0) {
      *random = *random * 25214903917ULL + 11;
      target = unigrams[(*random >> 16) % TABLE_SIZE];
      if (target == 0) target = (int)(*random % (unsigned long long)(vocabulary_size - 1)) + 1;
      if (target == centre) continue;
      label = 0;
    }
    out = output + target * dim;
    for (c = 0; c < dim; ++c) score += in[c] * out[c];
    if (score > MAX_SCORE) {
      g = (real)(label - 1) * rate;
    } else if (score < -MAX_SCORE) {
      g = (real)label * rate;
    } else {
      g = ((real)label - sigmoids[(int)((score + MAX_SCORE) * (SIGMOIDS / MAX_SCORE / 2))]) * rate;
    }
    for (c = 0; c < dim; ++c) change[c] += g * out[c];
    for (c = 0; c < dim; ++c) out[c] += g * in[c];
  }
  for (c = 0; c < dim; ++c) in[c] += change[c];
}

/* Words of the next sentence that are trained on; -1 at the end of the text. */
static int read_sentence(FILE *file, int *sentence, long long *words, unsigned long long *random) {
  char text[MAX_WORD];
  int length = 0;
  while (length < MAX_SENTENCE) {
    int id;
    read_word(text, file);
    if (feof(file)) return length > 0 ? length : -1;
    id = find(text);
    if (id == -1) continue;
    ++*words;
    if (id == 0) break;
    if (subsample > 0) {
      const real expected = subsample * (real)train_words;
      const real keep = (sqrtf((real)vocabulary[id].count / expected) + 1) * expected /
                        (real)vocabulary[id].count;
      *random = *random * 25214903917ULL + 11;
      if (keep < (*random & 0xFFFF) / (real)65536) continue;
    }
    sentence[length++] = id;
  }
  return length;
}

static void train(FILE *file) {
  int sentence[MAX_SENTENCE], length, place, epoch;
  long long words = 0;
  unsigned long long random = 1;
  real *change = calloc((size_t)dim, sizeof(real));
  for (epoch = 0; epoch < epochs; ++epoch) {
    rewind(file);
    while ((length = read_sentence(file, sentence, &words, &random)) >= 0) {
      real rate = first_rate * (1 - (real)words / (real)(epochs * train_words + 1));
      if (rate < first_rate * 0.0001f) rate = first_rate * 0.0001f;
      for (place = 0; place < length; ++place) {
        int reach, other;
        random = random * 25214903917ULL + 11;
        reach = window - (int)(random % (unsigned long long)window);
        for (other = place - reach; other <= place + reach; ++other) {
          if (other == place || other < 0 || other >= length) continue;
          train_pair(sentence[other], sentence[place], rate, change, &random);
        }
      }
    }
  }
  free(change);
}

int main(int argc, char **argv) {
  FILE *file;
  clock_t start;
  double seconds;
  if (argc != 8 || (file = fopen(argv[1], "rb")) == NULL) {
    fprintf(stderr, "usage: %s TEXT DIM WINDOW NEGATIVES SUBSAMPLE MIN_COUNT EPOCHS\n", argv[0]);
    return 2;
  }
  dim = atoll(argv[2]);
  window = atoi(argv[3]);
  negatives = atoi(argv[4]);
  subsample = (real)atof(argv[5]);
  min_count = atoi(argv[6]);
  epochs = atoi(argv[7]);
  vocabulary = calloc((size_t)vocabulary_room, sizeof(struct word));
  hash_table = malloc(sizeof(int) * HASH_SIZE);
  learn_vocabulary(file);
  fill_unigrams();
  initialise();
  start = clock();
  train(file);
  seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
  printf("{\"vocabulary\":%lld,\"words\":%lld,\"cpu_seconds\":%.6f,\"words_per_second\":%.1f}\n",
         vocabulary_size, epochs * train_words, seconds, (double)(epochs * train_words) / seconds);
  return 0;
}
