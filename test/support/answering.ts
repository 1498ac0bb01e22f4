/** In a process that was started as a `Child`: it is ready, and answers each order. Ends with who gives them. */
export function answering<Order, Answer>(answer: (order: Order) => Answer | Promise<Answer>): void {
  process.on('message', async (order: Order) => void process.send?.((await answer(order)) as object))
  process.once('disconnect', () => process.exit())
  process.send?.('ready')
}
