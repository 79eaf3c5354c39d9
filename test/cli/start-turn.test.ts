import test from 'ava'
import { takeStartTurn } from '../../cli/start-turn.ts'

test('one start at a time on a machine', async t => {
  const order: string[] = []
  const endFirst = await takeStartTurn()
  const second = takeStartTurn().then(end => {
    order.push('second')
    end()
  })
  await new Promise(resolve => setTimeout(resolve, 150))
  order.push('first is done')
  endFirst()
  await second
  t.deepEqual(order, ['first is done', 'second'])
})
