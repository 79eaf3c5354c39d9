/** What could steer a terminal or turn the direction of what follows; lines and tabs stay. */
const steering = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g

/** Text that holds what customers wrote, as it may go to an operator's terminal: it moves no cursor and sets no title. */
export const printable = (text: string): string => text.replace(steering, ' ')

/** As `printable`, of what is one line of a list: it cannot look like the next one either. */
export const oneLine = (text: string): string => printable(text).replace(/[\n\t]+/g, ' ')

type Line = (...words: unknown[]) => void

/** From here on nothing that steers a terminal gets through, whichever command prints it. */
export function guardTerminal(console: { log: Line; error: Line }): void {
  for (const way of ['log', 'error'] as const) {
    const write = console[way].bind(console)
    console[way] = (...words) => write(...words.map(word => (typeof word === 'string' ? printable(word) : word)))
  }
}
