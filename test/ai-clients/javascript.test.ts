import test from 'ava'
import { testGateway, testScenarios } from '../kit/ai/client-scenarios.ts'
import { clientOf, javascriptClient } from '../kit/ai/javascript-client.ts'
import { toolCall } from '../kit/servers/model-server.ts'

const gateway = testGateway()

testScenarios('JavaScript', javascriptClient, gateway)

test.serial('JavaScript: runTools calls the functions of a program until the model has answered', async t => {
  const { server, ana } = gateway
  server().next(
    { toolCalls: [toolCall('weather', { city: 'Porto' }, 'a'), toolCall('weather', { city: 'Oslo' }, 'b')] },
    { text: 'Porto is warmer.' },
  )
  const cities: string[] = []
  const runner = clientOf((await ana()).access).chat.completions.runTools({
    model: 'cubic',
    messages: [{ role: 'user', content: 'Where is it warmer?' }],
    tools: [
      {
        type: 'function',
        function: {
          name: 'weather',
          description: 'The temperature in a city',
          parameters: { type: 'object', properties: { city: { type: 'string' } } },
          parse: JSON.parse,
          function({ city }: { city: string }) {
            cities.push(city)
            return city === 'Porto' ? '25 °C' : '3 °C'
          },
        },
      },
    ],
  })
  t.is(await runner.finalContent(), 'Porto is warmer.')
  t.deepEqual(cities, ['Porto', 'Oslo'])
  t.deepEqual(
    server()
      .requests[1]!.body.messages.slice(2)
      .map((message: object) => Object.values(message)),
    [
      ['tool', '25 °C', 'a'],
      ['tool', '3 °C', 'b'],
    ],
  )
})
