import { createInterface } from 'node:readline/promises'

/** Asks for confirmation on the terminal, unless `yes`. Throws an Error if there is no terminal, or the answer is not yes. */
export async function confirm(question: string, yes: boolean | undefined): Promise<void> {
  if (yes) return
  if (!process.stdin.isTTY) throw new Error(`${question}\nThere is no terminal to confirm on: use --yes.`)
  if (!/^y(es)?$/i.test(await answerTo(`${question} [y/N] `))) throw new Error('Nothing was done.')
}

/** Asks to type a name before something that cannot be undone, unless `yes`. Throws an Error if it is not typed. */
export async function confirmName(name: string, yes: boolean | undefined): Promise<void> {
  if (yes) return
  if (!process.stdin.isTTY) throw new Error('There is no terminal to confirm on: use --yes.')
  if ((await answerTo(`Type ${name} to continue: `)) !== name) throw new Error('Nothing was done.')
}

async function answerTo(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  return (await lines.question(question).finally(() => lines.close())).trim()
}
