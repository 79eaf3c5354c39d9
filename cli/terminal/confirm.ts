import { createInterface } from 'node:readline/promises'

/** Asks the person in front, unless `yes`. Throws an Error when nobody can be asked, or the answer is not yes. */
export async function confirm(question: string, yes: boolean | undefined): Promise<void> {
  if (yes) return
  if (!process.stdin.isTTY) throw new Error(`${question}\nNobody can be asked here: say so with --yes.`)
  if (!/^y(es)?$/i.test(await answerTo(`${question} [y/N] `))) throw new Error('Nothing was done.')
}

/** Has the person in front type a name before what cannot be taken back, unless `yes`. Throws an Error when it is not typed. */
export async function confirmName(name: string, yes: boolean | undefined): Promise<void> {
  if (yes) return
  if (!process.stdin.isTTY) throw new Error('Nobody can be asked here: say so with --yes.')
  if ((await answerTo(`Type ${name} to go on: `)) !== name) throw new Error('Nothing was done.')
}

async function answerTo(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  return (await lines.question(question).finally(() => lines.close())).trim()
}
