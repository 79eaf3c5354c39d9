import { extname } from 'node:path'

/** The source of a thread that runs a module next to `from`, an `import.meta.url`: TypeScript in tests, JavaScript once compiled. */
export function threadProgram(name: string, from: string): string {
  const extension = extname(new URL(from).pathname)
  const module = JSON.stringify(new URL(`./${name}${extension}`, from))
  if (extension !== '.ts') return `import(${module})`
  return `import(${JSON.stringify(import.meta.resolve('tsx/esm/api'))}).then(tsx => (tsx.register(), import(${module})))`
}
