import test from 'ava'
import { Command } from 'commander'
import { verbs } from '../../cli/verbs.ts'

test('a verb is found by its name: only its own module is loaded', async t => {
  for (const [name, { load }] of Object.entries(verbs)) {
    const program = new Command()
    const add = await load()
    add(program)
    t.deepEqual(
      program.commands.map(command => command.name()),
      [name],
    )
  }
})
