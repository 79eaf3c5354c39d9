import { readFile } from 'node:fs/promises'

const checkout = new URL('../../../', import.meta.url).href
const { TEST_TRANSPILED: transpiled } = process.env

/** Answers a TypeScript file of the checkout with its transpiled text; everything else is Node's. */
export async function load(url, context, nextLoad) {
  const [address] = url.split('?')
  const isSource = address.endsWith('.ts') && address.startsWith(checkout) && !address.includes('/node_modules/')
  if (!isSource) return nextLoad(url, context)
  const path = decodeURIComponent(address.slice(checkout.length)).replace(/\.ts$/, '.js')
  return { format: 'module', source: await readFile(`${transpiled}/${path}`), shortCircuit: true }
}
