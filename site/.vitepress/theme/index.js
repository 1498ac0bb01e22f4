import { useRoute } from 'vitepress'
import theme from 'vitepress/theme-without-fonts'
import { nextTick, onMounted, watch } from 'vue'
import './style.css'

export default {
  extends: theme,
  setup() {
    // The first page has no landmark of its own.
    const mark = () => nextTick(() => document.querySelector('.VPHome')?.setAttribute('role', 'main'))
    const route = useRoute()
    onMounted(mark)
    watch(() => route.path, mark)
  },
}
