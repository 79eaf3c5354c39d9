/** The two crash points of each side effect. */
export const around = (...verbs: string[]): string[] => verbs.flatMap(verb => [`${verb}:before`, `${verb}:after`])

/** Portions of cases that run concurrently: this many hosts start within the time that a caller waits, on two cores. */
export function portions<T>(all: readonly T[], size = 5): T[][] {
  return Array.from({ length: Math.ceil(all.length / size) }, (_, n) => all.slice(n * size, (n + 1) * size))
}
